"""How a quadruped gets about: gaits, swing curves, footholds, the motion of the trunk, and who commands them."""
