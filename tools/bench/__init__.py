"""`./dev bench`: what the system does in a second, a workflow, a MiB, beside the engines that others would pick.

`scenarios` has one module for each row of the table, `drivers` the same work on every engine, `engines` starts them,
`own` is our system with a look into its database. Figures of one run can be compared with each other, with no others.
"""
