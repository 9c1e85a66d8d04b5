"""The transport problem solved: by construction where the optimum is known in closed form, by linear programming elsewhere."""
