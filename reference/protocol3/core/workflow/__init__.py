"""Workflows: every rule of part 20 as a pure decision over loaded records.

    submission  a root and its first activation          events      receipts and the inbox
    owner       who may speak for an activation          waits       external waits, the selection of a wake
    context     what its handler may read                inputs      child results for an activation
    local       its journal                              completion  children that ended, waits that may be over
    fork        branches                                 ending      failing, cancelling, terminal states
    decision    applying what it returned                drain       what a failing or cancelling workflow still owns
"""
