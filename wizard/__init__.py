"""vllm-wizard: from a bare machine to files that start vLLM."""

__version__ = "0.1.0"
