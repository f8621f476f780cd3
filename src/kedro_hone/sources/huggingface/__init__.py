"""What is known of models in the layout of the Hugging Face Hub, from their names, JSON and headers alone."""
