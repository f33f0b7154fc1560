"""trajstore: the place where LLM-agent trajectories live and turn into better agents."""
