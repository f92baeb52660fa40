# SPDX-License-Identifier: MIT
"""What every training stage shares: schedule, exponential moving average, checkpoints to resume from, a log, and a clean stop."""
import copy
import ctypes
import math
import os
import time

import torch

CLIP = 1.0


class Trainer:
    """Runs `steps` optimiser steps of one model in all, counting those of earlier runs, and saves after every `save_every`.

    The learning rate rises over `warm_up` steps and falls as a cosine to 2 %. `average` holds the moving average of the weights, which
    is what gets evaluated and exported. Training ends early, saved, once the file `stop` exists."""

    def __init__(self, model, path, steps, rate, decay=0.998, warm_up=50, save_every=50, stop=None):
        self.model, self.path, self.steps, self.rate, self.decay = model, path, steps, rate, decay
        self.warm_up, self.save_every, self.stop = warm_up, save_every, stop
        self.average = copy.deepcopy(model).eval().requires_grad_(False)
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=rate, betas=(0.9, 0.98), weight_decay=0.01)
        self.step, self.begin, self.sums, self.count = 0, time.time(), {}, 0
        if os.path.exists(path):
            self.resume()

    def resume(self):
        saved = torch.load(self.path)
        self.model.load_state_dict(saved["model"])
        self.average.load_state_dict(saved["average"])
        self.optimizer.load_state_dict(saved["optimizer"])
        self.step = saved["step"]
        self.log(f"resumed at step {self.step}")

    def log(self, text):
        line = f"{time.strftime('%H:%M:%S')} {text}"
        print(line, flush=True)
        with open(self.path + ".log", "a", encoding="utf-8") as file:
            file.write(line + "\n")

    def save(self):
        torch.save({"model": self.model.state_dict(), "average": self.average.state_dict(), "optimizer": self.optimizer.state_dict(),
                    "step": self.step}, self.path + ".part")
        os.replace(self.path + ".part", self.path)

    def current_rate(self):
        fall = 0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * min(1, self.step / self.steps)))
        return self.rate * min(1, (self.step + 1) / self.warm_up) * fall

    def update(self, loss):
        """One optimiser step."""
        for group in self.optimizer.param_groups:
            group["lr"] = self.current_rate()
        self.optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), CLIP)
        self.optimizer.step()
        self.step += 1
        decay = min(self.decay, (1 + self.step) / (10 + self.step))
        with torch.no_grad():
            for mean, value in zip(self.average.parameters(), self.model.parameters()):
                mean.lerp_(value, 1 - decay)

    def run(self, losses, evaluate, log_every=20, evaluate_every=200):
        """losses() -> dict whose "loss" is minimised; evaluate(average model) -> dict of numbers on held-out objects."""
        self.log("held out before: " + numbers(self.held_out(evaluate)))
        while self.step < self.steps and not (self.stop and os.path.exists(self.stop)):
            values = losses()
            self.update(values["loss"])
            for name, value in values.items():
                self.sums[name] = self.sums.get(name, 0.0) + float(value.detach())
            self.count += 1
            if self.step % log_every == 0:
                means = {name: total / self.count for name, total in self.sums.items()}
                self.log(f"{self.step} {time.time() - self.begin:.0f}s cpu {time.process_time():.0f}s {numbers(means)}")
                self.sums, self.count = {}, 0
            if self.step % evaluate_every == 0:
                self.log(f"held out at {self.step}: " + numbers(self.held_out(evaluate)))
            if self.step % self.save_every == 0:
                self.save()
        self.save()
        result = self.held_out(evaluate)
        self.log(f"held out at the end ({self.step}): " + numbers(result))
        return result

    def held_out(self, evaluate):
        """With the same random numbers every time, and without disturbing those of the training."""
        state = torch.get_rng_state()
        torch.manual_seed(5)
        with torch.no_grad():
            result = evaluate(self.average)
        torch.set_rng_state(state)
        return result


def keep_memory():
    """Lets the C library keep freed memory (glibc). Tensors of some MB are otherwise mapped and cleared anew each time: a tenth of a step."""
    try:
        change = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return
    for option, value in ((-4, 0), (-1, 2 ** 31 - 1), (-2, 64 << 20)):  # M_MMAP_MAX, M_TRIM_THRESHOLD, M_TOP_PAD
        change(option, value)


def mixed_precision(enabled):
    """Matrix products in bfloat16 where enabled: about twice as fast on processors that multiply it; keep losses in float32."""
    return torch.autocast("cpu", dtype=torch.bfloat16, enabled=enabled)


def numbers(values):
    return " ".join(f"{name} {value:.4f}" for name, value in values.items())


def average_of(path, model):
    """The averaged weights of a stage's checkpoint, in `model`."""
    model.load_state_dict(torch.load(path)["average"])
    return model.eval()


def add_options(parser, steps, rate):
    """The command line that all stages have."""
    parser.add_argument("library", help="libespalier-train-objects.so, from the build")
    parser.add_argument("work", help="directory of checkpoints and logs, outside the source tree")
    parser.add_argument("--model", default=os.path.join(os.path.dirname(__file__), "..", "..", "models", "tiny"),
                        help="model directory that supplies the other networks")
    parser.add_argument("--steps", type=int, default=steps, help="in all, earlier runs included (%(default)s)")
    parser.add_argument("--rate", type=float, default=rate, help="highest learning rate (%(default)s)")
    parser.add_argument("--batch", type=int, default=None)
    parser.add_argument("--objects", type=int, default=2000, help="training objects (%(default)s)")
    parser.add_argument("--held-out", type=int, default=26, help="held-out objects (%(default)s)")
    parser.add_argument("--stop", help="end, saved, once this file exists")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--bf16", action="store_true", help="matrix products in bfloat16, in the stages that have it")
