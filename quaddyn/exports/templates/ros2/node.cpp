// Node that controls QD_ROBOT by messages, for robots without ros2_control; written by quaddyn QD_VERSION.
//
// Subscribes to joint_states, imu and cmd_vel; computes a tick for every joint state, and publishes the torques on
// effort_controller/commands, in the order of `joint_names`.
#include <algorithm>
#include <array>
#include <memory>
#include <string>

#include "QD_NAME_drive.hpp"
#include "geometry_msgs/msg/twist.hpp"
#include "rclcpp/rclcpp.hpp"
#include "sensor_msgs/msg/imu.hpp"
#include "sensor_msgs/msg/joint_state.hpp"
#include "std_msgs/msg/float64_multi_array.hpp"

namespace QD_NAME
{

class QD_NODE : public rclcpp::Node
{
public:
  QD_NODE()
  : rclcpp::Node("QD_NAME_node")
  {
    timeout_ = declare_parameter<double>("command_timeout", 0.5);
    publisher_ = create_publisher<std_msgs::msg::Float64MultiArray>("effort_controller/commands", 1);
    joints_ = create_subscription<sensor_msgs::msg::JointState>(
      "joint_states", rclcpp::SensorDataQoS(),
      [this](const sensor_msgs::msg::JointState::SharedPtr message) {on_joint_state(*message);});
    imu_ = create_subscription<sensor_msgs::msg::Imu>(
      "imu", rclcpp::SensorDataQoS(), [this](const sensor_msgs::msg::Imu::SharedPtr message) {
        const auto & w = message->angular_velocity;
        const auto & a = message->linear_acceleration;
        reading_.gyro = {w.x, w.y, w.z};
        reading_.accelerometer = {a.x, a.y, a.z};
      });
    velocity_ = create_subscription<geometry_msgs::msg::Twist>(
      "cmd_vel", 1, [this](const geometry_msgs::msg::Twist::SharedPtr message) {
        request_.set(message->linear.x, message->linear.y, message->angular.z, now().seconds());
      });
    drive_.reset();
  }

private:
  void on_joint_state(const sensor_msgs::msg::JointState & message)
  {
    int n_found = 0;
    for (const std::string & name : message.name) {
      n_found += std::count(joint_names, joint_names + n_joints, name);
    }
    if (n_found < n_joints) {
      return;  // a message of another publisher, such as a gripper
    }
    reading_.position = reading_.velocity = reading_.torque = Reading::filled(nan);
    for (std::size_t k = 0; k < message.name.size(); k++) {
      for (int i = 0; i < n_joints; i++) {
        if (message.name[k] == joint_names[i]) {
          reading_.position[i] = k < message.position.size() ? message.position[k] : nan;
          reading_.velocity[i] = k < message.velocity.size() ? message.velocity[k] : nan;
          reading_.torque[i] = k < message.effort.size() ? message.effort[k] : nan;
        }
      }
    }
    reading_.time = rclcpp::Time(message.header.stamp).seconds();
    const double time = now().seconds();
    std::array<double, n_joints> effort;
    const int fault = drive_.tick(reading_, time, request_.get(time, timeout_), effort);
    if (fault != fault_) {
      fault_ = fault;
      RCLCPP_ERROR(get_logger(), "fault: %s; the joints are damped", drive_.fault_name());
    }
    std_msgs::msg::Float64MultiArray command;
    command.data.assign(effort.begin(), effort.end());
    publisher_->publish(command);
  }

  Drive drive_;
  Reading reading_;
  VelocityRequest request_;
  double timeout_ = 0.5;
  int fault_ = 0;
  rclcpp::Publisher<std_msgs::msg::Float64MultiArray>::SharedPtr publisher_;
  rclcpp::Subscription<sensor_msgs::msg::JointState>::SharedPtr joints_;
  rclcpp::Subscription<sensor_msgs::msg::Imu>::SharedPtr imu_;
  rclcpp::Subscription<geometry_msgs::msg::Twist>::SharedPtr velocity_;
};

}  // namespace QD_NAME

int main(int count, char ** arguments)
{
  rclcpp::init(count, arguments);
  rclcpp::spin(std::make_shared<QD_NAME::QD_NODE>());
  rclcpp::shutdown();
  return 0;
}
