// Stand-in for sensor_msgs of ROS 2, see README.md.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "rclcpp/rclcpp.hpp"

namespace sensor_msgs::msg
{
struct Header
{
  builtin_interfaces::msg::Time stamp;
  std::string frame_id;
};
struct JointState
{
  using SharedPtr = std::shared_ptr<JointState>;
  Header header;
  std::vector<std::string> name;
  std::vector<double> position, velocity, effort;
};
}  // namespace sensor_msgs::msg
