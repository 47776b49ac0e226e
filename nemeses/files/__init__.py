"""Files: bytes that change on disk, disks that are full, disks that take no writes. Only where files are the run's own."""
