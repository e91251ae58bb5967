"""The only room that touches ggml: loading it, its devices, their memory, and running graphs on them."""
