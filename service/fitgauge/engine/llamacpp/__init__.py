"""llama.cpp and Ollama, as llama.cpp's own source computes it: the copy in llama-cpp-python 0.3.36 unless a function says otherwise."""
