"""Hunt for differences between this service and the own code of vLLM and SGLang, on configs drawn
from a seed."""
