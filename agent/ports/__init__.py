"""Source ports that lead over wanted paths, learned by hop-limited probes, on fabrics that hash the 5-tuple."""
