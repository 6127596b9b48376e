"""From a benchmark to a server's costs."""
