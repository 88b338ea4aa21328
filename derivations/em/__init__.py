"""What EM means exactly."""
