// Stand-in for std_msgs of ROS 2, see README.md.
#pragma once
#include <vector>

namespace std_msgs::msg
{
struct Float64MultiArray
{
  std::vector<double> data;
};
}  // namespace std_msgs::msg
