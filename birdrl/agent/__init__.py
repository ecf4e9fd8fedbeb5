"""The agent's side of the environment: two SQL tools, prompts, one chat template and the trajectory loop."""
