"""Other whole-body controllers that run in separate environments and processes on the same recorded ticks.

A recording is an ``.npz`` file with T ticks of one robot, in SI units and world axes; feet are in the order of
``feet``, joints in the order of ``joints``:

    urdf ()               text of the robot's URDF, without geometry
    feet (4,)             frames whose origins are the contact points
    base ()               frame whose orientation is controlled
    joints (nu,)          actuated joints
    dt ()                 control period [s]
    q (T, nq), v (T, nv)  states in Pinocchio's convention, free-flyer first
    contacts (T, 4)       whether each foot is in contact
    com (T, 3)            reference acceleration of the center of mass [m/s^2]
    turn (T, 3)           reference angular acceleration of the base [rad/s^2]
    swing (T, 4, 3)       reference acceleration of the swing feet [m/s^2]
    posture (T, nu)       reference joint accelerations [rad/s^2]
    friction (T,)         coefficient of each face of the friction pyramid, per axis
    force_min, force_max (T,)  bounds of each normal force [N]
    effort (T, nu)        torque limits [N m]
    posture_weight, force_weight ()   weights of the last level relative to level 1, for a weighted sum of squares

The references are accelerations, not gains and errors, so that all controllers solve the same problem; the gains of the
other controllers are zero.  A result is another ``.npz`` file: ``tau (T, nu)``, ``a (T, nv)``, ``f (T, 4, 3)``,
``ok (T,)``, ``solve (T,)``, the time from state to torques [s], ``references (T,)``, the time for setting the
references [s], and ``changes (T,)``, the time for changing the contacts [s].

A worker (`tsid_worker.py`, `placo_worker.py`) reads the recording named on its command line and prints "ready".  It
then reads lines "first last" from its standard input, runs that range of ticks, and prints "done".  After an empty line
it writes its result, with the minimum times of each tick over all runs, and exits.
"""
