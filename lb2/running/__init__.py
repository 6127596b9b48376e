"""How a script meets the machine: options, signals, processes, files that change together."""
