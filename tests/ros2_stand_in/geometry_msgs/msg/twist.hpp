// Stand-in for geometry_msgs of ROS 2, see README.md.
#pragma once
#include <memory>

namespace geometry_msgs::msg
{
struct Vector3
{
  double x = 0.0, y = 0.0, z = 0.0;
};
struct Twist
{
  using SharedPtr = std::shared_ptr<Twist>;
  Vector3 linear, angular;
};
}  // namespace geometry_msgs::msg
