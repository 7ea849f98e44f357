"""Other whole-body controllers, each in its own environment and process, on the same recorded ticks.

A recording is an ``.npz`` file, T ticks of one robot, everything in SI units and world axes; feet in the order of
``feet``, joints in the order of ``joints``:

    urdf ()               text of the robot's URDF, without geometry
    feet (4,)             frames whose origins are the contact points
    base ()               frame whose orientation is controlled
    joints (nu,)          actuated joints
    dt ()                 control period [s]
    q (T, nq), v (T, nv)  as Pinocchio means them, free-flyer first
    contacts (T, 4)       whether each foot is in contact
    com (T, 3)            reference acceleration of the center of mass [m/s^2]
    turn (T, 3)           reference angular acceleration of the base [rad/s^2]
    swing (T, 4, 3)       reference acceleration of the swing feet [m/s^2]
    posture (T, nu)       reference joint accelerations [rad/s^2]
    friction (T,)         coefficient of each of the pyramid's faces, per axis
    force_min, force_max (T,)  bounds of each normal force [N]
    effort (T, nu)        torque limits [N m]
    posture_weight, force_weight ()   of the last level, relative to level 1 where all is one sum of squares

The references are accelerations, not gains and errors, so that all controllers solve the same problem: the gains of the
others are set to zero.  An answer is another ``.npz``: ``tau (T, nu)``, ``a (T, nv)``,
``f (T, 4, 3)``, ``ok (T,)``, ``solve (T,)`` [s] from state to torques, ``references (T,)`` [s] for setting them.
Adding and removing contacts is not timed.

A worker (`tsid_worker.py`, `placo_worker.py`) reads the recording named on its command line and prints "ready".  It
then reads lines "first last" from its standard input, runs that range of ticks, and prints "done".  After an empty line
it writes its answer, with the least time of each tick over all runs, and ends.
"""
