"""Planning: predicted widths, powers, prices and numbers of rows beside what studies measure."""
