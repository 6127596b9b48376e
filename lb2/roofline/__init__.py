"""GPT-3 13B on one A100: its times, its workload, and three schedulers on it."""
