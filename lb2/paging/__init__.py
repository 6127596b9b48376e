"""The paged scheduler: its decisions, its clock, and its fast twin."""
