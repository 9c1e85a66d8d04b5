"""Solution of the transport problem: by construction if the optimum is known in closed form, else by linear programming."""
