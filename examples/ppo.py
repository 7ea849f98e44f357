"""Reinforcement learning: Go2 learns to follow velocity commands (`pip install 'quaddyn[torch,plot]'`).

Proximal policy optimization (PPO; Schulman et al., 2017, "Proximal policy optimization algorithms") with generalized
advantage estimation, in the style of CleanRL.  Joint targets are the actions, every 20 ms.  Training stops after
`--minutes` of processor time; the policy is then compared with standing still on commands that it has not met.
"""

import argparse
import time

import matplotlib.pyplot as plt
import numpy as np
import torch
from torch import nn

from quaddyn.envs import VelocityTask

STEPS, EPOCHS, MINIBATCHES = 24, 4, 4  # actions of each robot between updates, passes over them, parts of a pass
GAMMA, LAMBDA, CLIP, ENTROPY = 0.98, 0.95, 0.2, 0.002  # discounts of rewards and advantages, range of ratios, bonus
TARGET_KL, MAX_GRADIENT, FALL_PENALTY = 0.01, 1.0, 2.0  # change of the policy by an update, largest norm of a gradient
ROBOT, N_ROBOTS = "go2", 256
SPEEDS = (0.6, 0.2, 0.5)  # largest commands: forward and sideways [m/s], turning [rad/s]


class Agent(nn.Module):
    """Policy (mean and deviation of actions) and value of normalized observations."""

    def __init__(self, n_inputs: int, n_actions: int) -> None:
        super().__init__()

        def network(n_outputs: int, gain: float) -> nn.Sequential:
            hidden = [nn.Linear(n_inputs, 128), nn.ELU(), nn.Linear(128, 64), nn.ELU()]
            nn.init.orthogonal_((last := nn.Linear(64, n_outputs)).weight, gain)
            return nn.Sequential(*hidden, last)

        self.policy, self.value = network(n_actions, 0.01), network(1, 1.0)
        self.log_deviation = nn.Parameter(torch.full((n_actions,), -0.7))
        for name, x in ("mean", torch.zeros(n_inputs)), ("variance", torch.ones(n_inputs)), ("count", torch.ones(())):
            self.register_buffer(name, x)

    def normalize(self, x: torch.Tensor, *, update: bool = False) -> torch.Tensor:
        """Returns observations with the mean 0 and the variance 1 of all observations so far."""
        if update:
            rate, change = len(x) / float(self.count.add_(len(x))), x.mean(0) - self.mean
            self.mean += rate * change
            self.variance += rate * (x.var(0) - self.variance + (1.0 - rate) * change**2)
        return ((x - self.mean) / (self.variance + 1e-6).sqrt()).clamp(-5.0, 5.0)

    def distribution(self, x: torch.Tensor) -> torch.distributions.Normal:
        """Returns the distribution of actions."""
        return torch.distributions.Normal(self.policy(x), self.log_deviation.exp())


def make_task(n: int, robot: str, seed: int) -> VelocityTask:
    """Returns the task of n robots, whose random numbers depend on the seed."""
    task = VelocityTask(n, robot, max_command=SPEEDS)
    for lane in range(n):
        task.set_generator(lane, np.random.default_rng([seed, lane]))
    return task


def train(robot: str, n: int, minutes: float, seed: int) -> tuple[Agent, list[tuple[float, float]]]:
    """Returns the agent, and the mean reward of a step over the minutes of processor time."""
    torch.manual_seed(seed)
    task = make_task(n, robot, seed)
    agent = Agent(task.observation_size, task.action_size)
    optimizer, rate, curve = torch.optim.Adam(agent.parameters(), lr=1e-3), 1e-3, []
    observation, begin = torch.from_numpy(task.reset()), time.process_time()
    xs, actions = torch.zeros(STEPS, n, task.observation_size), torch.zeros(STEPS, n, task.action_size)
    log_probs, rewards, values, beyond, ends, advantages = torch.zeros(6, STEPS, n)
    while (spent := (time.process_time() - begin) / 60.0) < minutes:
        for k in range(STEPS):
            with torch.no_grad():
                xs[k] = agent.normalize(observation, update=True)
                distribution = agent.distribution(xs[k])
                actions[k], values[k] = distribution.sample(), agent.value(xs[k])[:, 0]
                log_probs[k] = distribution.log_prob(actions[k]).sum(1)
                found, reward, has_fallen, is_cut_off = task.step(actions[k].numpy())
                rewards[k] = torch.from_numpy(reward - FALL_PENALTY * has_fallen)
                value = agent.value(agent.normalize(torch.from_numpy(found)))[:, 0]
                beyond[k] = value * torch.from_numpy(is_cut_off & ~has_fallen)  # these episodes would have gone on
            ends[k] = torch.from_numpy(done := has_fallen | is_cut_off)
            observation = torch.from_numpy(task.reset(done) if done.any() else found)
        curve.append((spent, float(rewards.mean())))
        with torch.no_grad():
            following, sums = agent.value(agent.normalize(observation))[:, 0], torch.zeros(n)
            for k in reversed(range(STEPS)):
                delta = rewards[k] + GAMMA * (beyond[k] + following * (1.0 - ends[k])) - values[k]
                sums = delta + GAMMA * LAMBDA * (1.0 - ends[k]) * sums
                advantages[k], following = sums, values[k]
        flat = [x.flatten(0, 1) for x in (xs, actions, log_probs, advantages, advantages + values)]
        for _ in range(EPOCHS):
            for rows in torch.randperm(STEPS * n).chunk(MINIBATCHES):
                x, action, old, advantage, target = (each[rows] for each in flat)
                distribution, advantage = agent.distribution(x), (advantage - advantage.mean()) / advantage.std()
                change = distribution.log_prob(action).sum(1) - old
                ratio = change.exp()
                gain = torch.minimum(ratio * advantage, ratio.clamp(1.0 - CLIP, 1.0 + CLIP) * advantage).mean()
                gain = gain + ENTROPY * distribution.entropy().sum(1).mean()
                loss = 0.5 * (agent.value(x)[:, 0] - target).square().mean() - gain
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(agent.parameters(), MAX_GRADIENT)
                kl = float((ratio - 1.0 - change).detach().mean())
                factor = 0.77 if kl > 2.0 * TARGET_KL else 1.1 if kl < TARGET_KL else 1.0
                rate = min(max(factor * rate, 1e-5), 2e-3)
                optimizer.param_groups[0]["lr"] = rate
                optimizer.step()
        if len(curve) % 20 == 0:
            print(f"{spent:5.1f} min, reward {curve[-1][1]:.3f}, end of episodes {50 * float(ends.mean()):.2f}/s")
    return agent, curve


def follow(agent: Agent, robot: str, scale: float = 1.0) -> float:
    """Returns the error of velocity (planar speed, m/s) over 8 s of commands; the actions are scaled."""
    task, errors = make_task(64, robot, 10**6), []
    observation = task.reset()
    for step in range(400):
        with torch.no_grad():
            action = scale * agent.policy(agent.normalize(torch.from_numpy(observation))).numpy()
        observation, _, has_fallen, _ = task.step(action)
        if step % 250 >= 50:  # a second after each new command
            errors.append(np.hypot(*(observation[:, :2] - observation[:, 9:11]).T).mean())
        observation = task.reset(has_fallen) if has_fallen.any() else observation
    return float(np.mean(errors))


def main(picture: str | None = None, minutes: float = 4.0, seeds: tuple[int, ...] = (0,)) -> list[dict[str, float]]:
    """Returns for each seed the errors of the policy and of standing still [m/s]."""
    torch.set_num_threads(1)  # the simulation has the other cores
    results = []
    for seed in seeds:
        agent, curve = train(ROBOT, N_ROBOTS, minutes, seed)
        results.append({"policy": follow(agent, ROBOT), "standing": follow(agent, ROBOT, 0.0)})
        print(f"seed {seed}, errors of velocity [m/s]: {results[-1]}", flush=True)
        plt.plot(*zip(*curve, strict=True), label=f"seed {seed}")
    if picture is not None:
        plt.gca().set(xlabel="processor time [min]", ylabel="mean reward", title="Go2 learns velocity commands")
        plt.legend()
        plt.savefig(picture, dpi=120)
    return results


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--picture", help="file of the learning curves")
    parser.add_argument("--minutes", type=float, default=4.0, help="processor time of a training, over all threads")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0], help="seeds, one training each")
    main(**vars(parser.parse_args()))
