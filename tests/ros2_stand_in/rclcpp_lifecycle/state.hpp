// Stand-in for rclcpp_lifecycle of ROS 2, see README.md.
#pragma once
#include "rclcpp/rclcpp.hpp"

namespace rclcpp_lifecycle
{
class State {};
class LifecycleNode : public rclcpp::Node
{
public:
  using rclcpp::Node::Node;
};
}  // namespace rclcpp_lifecycle
