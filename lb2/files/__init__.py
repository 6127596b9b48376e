"""What is read: requests, traces, benchmark results, costs."""
