"""The paged scheduler: its decisions, its clock, its fast twin, and vLLM's recordings."""
