"""Elements and attributes that other tools write into URDF files, and which mean nothing to the dynamics here.

Sources: the documentation of ROS and ROS 2 (urdf, ros2_control, srdf), Gazebo (SDF extensions), MuJoCo, Drake, Bullet
and Isaac Sim, and robot files in common use.
"""

from __future__ import annotations

#: Elements that are passed over wherever they stand.
FOREIGN_ELEMENTS = frozenset(
    # ROS: control, sensors, drivers, safety and calibration
    "ros2_control ros_control transmission hardware hardwareInterface command_interface state_interface gpio sensor "
    "plugin param safety_controller calibration safety actuator joint_properties joint_limits compliance "
    "hardware_interface mechanicalReduction mechanical_reduction motorTorqueConstant simulation "
    # SRDF, which some files carry along
    "group group_state chain end_effector virtual_joint passive_joint disable_collisions enable_collisions "
    "disable_default_collisions disable_self_collisions joint_property collision_pair rotor_group "
    # Gazebo and SDF
    "gazebo static self_collide selfCollide gravity turnGravityOff kinematic surface velocity_decay enable_wind "
    "collision_checking self_filter self_collision_checking must_be_base_link preserveFixedJoint "
    "disableFixedJointLumping provideFeedback implicitSpringDamper springStiffness springReference mu1 mu2 kp kd "
    "fdir1 maxVel minDepth maxContacts dampingFactor laserRetro fluid_added_mass camera ray imu light physics ode "
    "bullet projector pose "
    # Bullet, MuJoCo, Isaac Sim, exporters of CAD programs
    "contact contact_coefficients lateral_friction rolling_friction spinning_friction restitution stiffness "
    "audio_source inertia_scaling mujoco default compiler option size equality asset isaac_sim isaac_sim_extension "
    "onshape verbose color texture material density version author description comment capsule_collision "
    "acceleration_limit jerk_limit frame sites site "
    "metadata meta info license units export model world include script motor motors actuators sensors contacts tendon "
    "keyframe force_torque_sensor force_torque noise update_rate always_on topic visualize robotNamespace "
    "namespace".split()
)
#: Attributes that are passed over, by element.
FOREIGN_ATTRIBUTES = {
    "joint": frozenset("id axis_id group actuated".split()),
    "limit": frozenset(
        "acceleration deceleration jerk command_effort current gear_velocity stall_effort drive_effort temperature "
        "K_velocity k_velocity k_position soft_lower soft_upper".split()
    ),
    "dynamics": frozenset(
        "D K mu_coulomb mu_viscous spring_stiffness spring_reference rotor_inertia gear_ratio stiffness reference "
        "frictionloss static_friction".split()
    ),
    "mesh": frozenset("convex name material subdivision lod inertia".split()),
    "mimic": frozenset(("name",)),
    "origin": frozenset(("relative_to",)),
}
