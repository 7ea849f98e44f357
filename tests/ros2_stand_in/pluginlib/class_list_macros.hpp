// Stand-in for pluginlib of ROS 2, see README.md.
#pragma once

#define PLUGINLIB_EXPORT_CLASS(Class, Base) \
  Base * make_plugin() {return new Class();}
