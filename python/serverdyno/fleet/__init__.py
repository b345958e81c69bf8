"""The nodes on which clients run: this process, processes of this machine, or machines of a fleet."""
