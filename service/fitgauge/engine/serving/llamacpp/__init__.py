"""llama.cpp and Ollama."""
