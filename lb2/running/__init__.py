"""How a script meets the machine: options, tables for people, processes."""
