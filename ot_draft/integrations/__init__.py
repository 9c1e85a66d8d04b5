"""The rules inside the tools that people already run: one module a host, each loaded only where it is asked for."""
