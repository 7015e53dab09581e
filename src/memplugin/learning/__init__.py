"""From outcomes to credit: what an attempt was worth, who was followed, and who should go."""
