variable "spot_p_vcpus" {
  type        = number
  default     = 0
  description = "vCPUs of P machines (A100, H100, H200, B200) to ask for as spot; 0 asks for nothing."
}

variable "spot_g_vcpus" {
  type        = number
  default     = 0
  description = "The same for G and VT machines (T4, A10G, L4, L40S)."
}

variable "on_demand_p_vcpus" {
  type    = number
  default = 0
}

variable "on_demand_g_vcpus" {
  type    = number
  default = 0
}

data "aws_caller_identity" "me" {}

resource "aws_s3_bucket" "runs" {
  bucket = "${var.name}-runs-${data.aws_caller_identity.me.account_id}-${var.region}"
}

resource "aws_s3_bucket_public_access_block" "runs" {
  bucket                  = aws_s3_bucket.runs.id
  block_public_acls       = true
  block_public_policy     = true
  ignore_public_acls      = true
  restrict_public_buckets = true
}

# A checkpoint that was cut off half-way is billed until somebody ends it.
resource "aws_s3_bucket_lifecycle_configuration" "runs" {
  bucket = aws_s3_bucket.runs.id
  rule {
    id     = "unfinished-uploads"
    status = "Enabled"
    filter {}
    abort_incomplete_multipart_upload {
      days_after_initiation = 1
    }
  }
}

resource "aws_iam_role" "machine" {
  name = "${var.name}-machine"
  assume_role_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect    = "Allow"
      Action    = "sts:AssumeRole"
      Principal = { Service = "ec2.amazonaws.com" }
    }]
  })
}

# A machine reads and writes runs, and may end machines of gpuplan, itself first of all.
resource "aws_iam_role_policy" "machine" {
  role = aws_iam_role.machine.id
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [
      {
        Effect   = "Allow"
        Action   = ["s3:GetObject", "s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload"]
        Resource = "${aws_s3_bucket.runs.arn}/*"
      },
      {
        Effect   = "Allow"
        Action   = "s3:ListBucket"
        Resource = aws_s3_bucket.runs.arn
      },
      {
        # What `--secret` names.
        Effect   = "Allow"
        Action   = "secretsmanager:GetSecretValue"
        Resource = "arn:aws:secretsmanager:*:*:secret:gpuplan/*"
      },
      {
        Effect    = "Allow"
        Action    = "ec2:TerminateInstances"
        Resource  = "*"
        Condition = { StringLike = { "aws:ResourceTag/gpuplan:run" = "*" } }
      },
      {
        # The last machine of a run that a fleet keeps alive ends the fleet.
        Effect   = "Allow"
        Action   = "ec2:DescribeTags"
        Resource = "*"
      },
      {
        Effect    = "Allow"
        Action    = "ec2:DeleteFleets"
        Resource  = "arn:aws:ec2:*:*:fleet/*"
        Condition = { StringLike = { "aws:ResourceTag/gpuplan:run" = "*" } }
      }
    ]
  })
}

# `gpuplan ssh` comes in through Session Manager, without an open port.
resource "aws_iam_role_policy_attachment" "sessions" {
  role       = aws_iam_role.machine.name
  policy_arn = "arn:aws:iam::aws:policy/AmazonSSMManagedInstanceCore"
}

resource "aws_iam_instance_profile" "machine" {
  name = "${var.name}-machine"
  role = aws_iam_role.machine.name
}

locals {
  quotas = {
    "L-7212CCBC" = var.spot_p_vcpus
    "L-3819A6DF" = var.spot_g_vcpus
    "L-417A185B" = var.on_demand_p_vcpus
    "L-DB2E81BA" = var.on_demand_g_vcpus
  }
}

resource "aws_servicequotas_service_quota" "vcpus" {
  for_each     = { for code, value in local.quotas : code => value if value > 0 }
  service_code = "ec2"
  quota_code   = each.key
  value        = each.value
}

# What whoever launches may do, and nothing else: give it to a user or role with aws_iam_user_policy_attachment or the like.
resource "aws_iam_policy" "launch" {
  name = "${var.name}-launch"
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [
      {
        Sid    = "Look"
        Effect = "Allow"
        Action = [
          "ec2:DescribeRegions",
          "ec2:DescribeInstances",
          "ec2:DescribeInstanceTypes",
          "ec2:DescribeInstanceTypeOfferings",
          "ec2:DescribeImages",
          "ec2:DescribeSecurityGroups",
          "ec2:DescribeSubnets",
          "ec2:DescribePlacementGroups",
          "ec2:DescribeFleets",
          "ec2:DescribeLaunchTemplates",
          "ec2:DescribeAvailabilityZones",
          "ec2:DescribeCapacityBlockOfferings",
          "ec2:DescribeCapacityReservations",
          "servicequotas:GetServiceQuota",
          "servicequotas:ListServiceQuotas"
        ]
        Resource = "*"
      },
      {
        Sid    = "RentWithTheMarkOfARun"
        Effect = "Allow"
        Action = ["ec2:RunInstances", "ec2:CreatePlacementGroup", "ec2:CreateFleet", "ec2:CreateLaunchTemplate"]
        Resource = [
          "arn:aws:ec2:*:*:fleet/*",
          "arn:aws:ec2:*:*:launch-template/*",
          "arn:aws:ec2:*:*:instance/*",
          "arn:aws:ec2:*:*:spot-instances-request/*",
          "arn:aws:ec2:*:*:placement-group/*"
        ]
        Condition = { StringLike = { "aws:RequestTag/gpuplan:run" = "*" } }
      },
      {
        # `launch --buy-capacity-block` pays up front. Take this away from whoever may not.
        Sid       = "BuyBlocks"
        Effect    = "Allow"
        Action    = "ec2:PurchaseCapacityBlock"
        Resource  = "arn:aws:ec2:*:*:capacity-reservation/*"
        Condition = { StringLike = { "aws:RequestTag/gpuplan:run" = "*" } }
      },
      {
        Sid    = "RentOnWhatIsThere"
        Effect = "Allow"
        Action = ["ec2:RunInstances", "ec2:CreateFleet"]
        Resource = [
          "arn:aws:ec2:*:*:launch-template/*",
          "arn:aws:ec2:*::image/*",
          "arn:aws:ec2:*::snapshot/*",
          "arn:aws:ec2:*:*:volume/*",
          "arn:aws:ec2:*:*:network-interface/*",
          "arn:aws:ec2:*:*:security-group/*",
          "arn:aws:ec2:*:*:subnet/*",
          "arn:aws:ec2:*:*:capacity-reservation/*",
          "arn:aws:ec2:*:*:placement-group/*"
        ]
      },
      {
        Sid       = "MarkAsItIsMade"
        Effect    = "Allow"
        Action    = "ec2:CreateTags"
        Resource  = "arn:aws:ec2:*:*:*/*"
        Condition = { StringEquals = { "ec2:CreateAction" = ["RunInstances", "CreatePlacementGroup", "CreateFleet", "CreateLaunchTemplate", "PurchaseCapacityBlock"] } }
      },
      {
        Sid       = "EndWhatBearsTheMark"
        Effect    = "Allow"
        Action    = ["ec2:TerminateInstances", "ec2:DeletePlacementGroup", "ec2:DeleteFleets", "ec2:DeleteLaunchTemplate"]
        Resource  = "*"
        Condition = { StringLike = { "aws:ResourceTag/gpuplan:run" = "*" } }
      },
      {
        Sid       = "GiveMachinesTheirRole"
        Effect    = "Allow"
        Action    = "iam:PassRole"
        Resource  = aws_iam_role.machine.arn
        Condition = { StringEquals = { "iam:PassedToService" = "ec2.amazonaws.com" } }
      },
      {
        # Once in the life of an account, before its first spot machine and its first fleet.
        Sid       = "LetSpotWork"
        Effect    = "Allow"
        Action    = "iam:CreateServiceLinkedRole"
        Resource  = "*"
        Condition = { StringEquals = { "iam:AWSServiceName" = ["spot.amazonaws.com", "ec2fleet.amazonaws.com"] } }
      },
      {
        Sid       = "ComeIn"
        Effect    = "Allow"
        Action    = "ssm:StartSession"
        Resource  = "arn:aws:ec2:*:*:instance/*"
        Condition = { StringLike = { "ssm:resourceTag/gpuplan:run" = "*" } }
      },
      {
        Sid      = "StayIn"
        Effect   = "Allow"
        Action   = ["ssm:ResumeSession", "ssm:TerminateSession", "ssmmessages:OpenDataChannel"]
        Resource = "arn:aws:ssm:*:*:session/$${aws:userid}-*"
      },
      {
        Sid      = "KeepRuns"
        Effect   = "Allow"
        Action   = ["s3:GetObject", "s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload"]
        Resource = "${aws_s3_bucket.runs.arn}/*"
      },
      {
        Sid      = "ListRuns"
        Effect   = "Allow"
        Action   = "s3:ListBucket"
        Resource = aws_s3_bucket.runs.arn
      }
    ]
  })
}

output "launch_policy" {
  value = aws_iam_policy.launch.arn
}

output "store" {
  value = "s3://${aws_s3_bucket.runs.id}"
}

output "instance_profile" {
  value = aws_iam_instance_profile.machine.name
}
