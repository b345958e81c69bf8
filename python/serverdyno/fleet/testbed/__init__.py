"""Hosts in network namespaces of this machine, with links of limited rate between them and the server."""
