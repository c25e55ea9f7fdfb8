"""Vision and audio towers, and the models built around them."""
