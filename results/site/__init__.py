"""Site: static pages about many runs, which work from a folder and from any server, and the same pages served while runs go on."""
