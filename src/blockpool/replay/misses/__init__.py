"""Why prompt blocks missed: one reason for each, from what has been indexed and evicted before."""
