// Stand-in for sensor_msgs of ROS 2, see README.md.
#pragma once
#include <memory>

#include "geometry_msgs/msg/twist.hpp"

namespace sensor_msgs::msg
{
struct Imu
{
  using SharedPtr = std::shared_ptr<Imu>;
  geometry_msgs::msg::Vector3 angular_velocity, linear_acceleration;
};
}  // namespace sensor_msgs::msg
