"""`report`: a period's numbers read from gold, and laid out as text or as one HTML file."""
