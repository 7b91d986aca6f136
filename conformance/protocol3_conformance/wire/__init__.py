"""Wire layer: raw HTTP, strict JSON, and the checks that every exchange of every scenario passes through."""
