"""Preference and RL training: the models of an algorithm, the rollout engine on the same GPUs, and
the phases of a step."""
