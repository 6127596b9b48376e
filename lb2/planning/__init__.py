"""The search for the load that a server carries."""
