"""The testbed: hosts in network namespaces of this machine, with rate-limited links between them and the server."""
