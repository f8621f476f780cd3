"""How a candidate's outputs compare with the source's, and the inputs on which they are compared."""
