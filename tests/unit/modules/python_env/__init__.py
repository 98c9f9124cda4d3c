"""python_env, with the real uv: small wheels from a folder or from a local index."""
