"""Three steps with a bar each: something to record."""

import sys
import time

for step in ("fetch", "build", "test"):
    for part in range(21):
        bar = f"\x1b[32m{'█' * part}\x1b[90m{'░' * (20 - part)}\x1b[0m"
        sys.stdout.write(f"\r\x1b[1m{step:<6}\x1b[0m {bar} {part * 5:3} %")
        sys.stdout.flush()
        time.sleep(0.02)
    print("  \x1b[32mdone\x1b[0m")
