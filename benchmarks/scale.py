QUICK=None
class Sizes: pass
def run(s): return []
