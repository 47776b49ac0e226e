"""What nodes on hosts and in containers share: services, guards, clocks, transports."""
