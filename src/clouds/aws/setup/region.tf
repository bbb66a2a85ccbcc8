terraform {
  required_version = ">= 1.6"
  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 5.0"
    }
  }
}

variable "region" {
  type        = string
  description = "Region that is set up."
}

variable "name" {
  type        = string
  default     = "gpuplan"
  description = "Beginning of every name, the same in every region."
}

variable "vpc_id" {
  type        = string
  default     = null
  description = "Network of the machines; none: the default one."
}

provider "aws" {
  region = var.region
  default_tags {
    tags = { "gpuplan:owner" = var.name }
  }
}

data "aws_vpc" "chosen" {
  id      = var.vpc_id
  default = var.vpc_id == null ? true : null
}

# No way in but from machines of the same group, which all-reduce needs.
resource "aws_security_group" "machine" {
  name        = "${var.name}-machine"
  description = "gpuplan machines: out to anywhere, in from each other"
  vpc_id      = data.aws_vpc.chosen.id
  ingress {
    from_port = 0
    to_port   = 0
    protocol  = "-1"
    self      = true
  }
  egress {
    from_port   = 0
    to_port     = 0
    protocol    = "-1"
    cidr_blocks = ["0.0.0.0/0"]
  }
  # Elastic Fabric Adapter counts traffic inside the group as leaving it.
  egress {
    from_port = 0
    to_port   = 0
    protocol  = "-1"
    self      = true
  }
}

output "security_group" {
  value = aws_security_group.machine.id
}
