"""Models that read images and audio, run with mlx-vlm."""
